#!/bin/sh
# run.sh REWARD: writes 1 there when every check holds, else 0. What it prints is for people.
right=1
check() { # NAME WANTED FOUND
    if [ "$2" = "$3" ]; then echo "ok - $1"; else echo "not ok - $1: wanted $2, found $3"; right=0; fi
}
there=$(mktemp -d)
check "plain names" 375 "$(sh total.sh orders.txt 2>/dev/null)"
printf 'blue pen;2;150\nink;1;300\n' > "$there/orders"
check "a name with a space" 450 "$(sh total.sh "$there/orders" 2>/dev/null)"
printf '# blue pen;2;150\n\npen;1;75\n' > "$there/orders"
check "comments and empty lines" 75 "$(sh total.sh "$there/orders" 2>/dev/null)"
printf 'pen;1;75' > "$there/my orders"
check "a file with a space, no newline at its end" 75 "$(sh total.sh "$there/my orders" 2>/dev/null)"
echo "$right" > "$1"
