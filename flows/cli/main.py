"""`assay`: the command group. A command is loaded when it is called: `--help` imports neither Prefect nor pandas.

Rules:
1. A command is a module of this package with a click command named `command`.
2. An `AssayError` ends with its exit code and one message on stderr, without a traceback (`--debug` shows it).
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys

import click

from cells.errors import AssayError, Interrupted

COMMANDS: dict[str, str] = {
    "doctor": "Check engine, images, disk, keys, clock and leftovers.",
    "init": "Write a small commented study to start from.",
    "plan": "Freeze and print the design of a study; --diff, --accept.",
    "run": "Run a study, or go on with it.",
    "pause": "Let a running study finish its running cells, then wait.",
    "stop": "Let a running study finish its running cells, then end.",
    "status": "Counts by outcome, running cells, time, losses, money.",
    "show": "One cell: phases, files and who may read them, outcome, why.",
    "table": "Tables of cells as Parquet, from studies and other tools' files.",
    "compare": "Paired statistics of two arms, or of a file.",
    "report": "A self-contained HTML report.",
    "tasks": "Import tasks; check that they can be measured here.",
    "verify": "Verify a bundle, a study or a studies root.",
    "audit": "Prove from the evidence who could read what, and when.",
    "regrade": "Verify and score again from stored patches.",
    "replay": "Run a recorded attempt again at the wire.",
    "branch": "A branch-attempt study.",
    "contract": "The artifact contract as a table.",
    "archive": "Mark a study or cell as archived.",
    "unarchive": "Take the archive mark away.",
    "export": "Write a study or bundle as one file.",
    "restore": "Bring an exported file back under a studies root.",
    "purge": "Delete with preview, confirmation and a tombstone.",
    "fork": "A new study from a frozen design.",
    "supersede": "Link a correction to the bundle that it replaces.",
    "withdraw": "Withdraw a claim whose evidence is gone.",
    "label": "Labels on studies and cells.",
    "studies": "The registry of studies across roots.",
    "support": "An environment report without study content.",
    "reap": "Remove containers and volumes of dead owners (ours only).",
    "prune": "Remove images and volumes that no study needs (ours only).",
    "server": "The local Prefect server: start, stop, status.",
}


class LazyGroup(click.Group):
    """A group whose commands are imported by name when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in COMMANDS if _exists(name)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS or not _exists(cmd_name):
            return None
        command = importlib.import_module(_module(cmd_name)).command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS:
            ctx.fail(f"there is no command {args[0]!r}; `assay --help` lists them")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, COMMANDS[name]) for name in self.list_commands(ctx)]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


def _module(name: str) -> str:
    return f"{__package__}.{name}"


def _exists(name: str) -> bool:
    return importlib.util.find_spec(_module(name)) is not None


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="assay", prog_name="assay")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """Measure coding-agent harnesses, with evidence that stands up.

    \b
    assay init my-study && assay run my-study/study.toml
    assay status my-study
    assay compare my-study --control control --treatment treatment
    """
    ctx.obj = {"debug": debug}


def main(arguments: list[str] | None = None) -> int:
    """Entry point of the console script; returns the exit status."""
    debug = "--debug" in (sys.argv[1:] if arguments is None else arguments) or bool(os.environ.get("ASSAY_DEBUG"))
    try:
        result = cli.main(args=arguments, prog_name="assay", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.Abort:
        click.echo("interrupted; run the same command again to go on", err=True)
        return Interrupted.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except AssayError as error:
        if debug:
            raise
        click.echo(f"assay: {error}", err=True)
        return error.exit_code
    except BrokenPipeError:
        return 0


if __name__ == "__main__":
    sys.exit(main())
