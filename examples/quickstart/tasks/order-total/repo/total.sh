#!/bin/sh
# total.sh FILE: sum of the last column of a file of orders "name;count;price", prices in cents.
# Lines that are empty or start with # do not count.
sum=0
for line in $(cat $1); do
    price=${line##*;}
    sum=$((sum + price))
done
echo "$sum"
