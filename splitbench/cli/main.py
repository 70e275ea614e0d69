"""The command `splitbench`. Each command is a file of its own; torch is loaded by those that need it, not here."""

from __future__ import annotations

import logging
import os
import sys

import typer

from splitbench import __version__
from splitbench.cli import (
    account,
    attack,
    check,
    checklist,
    claims,
    data,
    diff,
    doctor,
    evaluate,
    export,
    figure,
    ls,
    profile,
    report,
    run,
    show,
    table,
    train,
    verify,
)
from splitbench.cli._settings import SettingsCommand
from splitbench.core.errors import SplitbenchError
from splitbench.runner.allocator import keep_memory

app = typer.Typer(
    help="Privacy in split learning: train a split network under a defense, attack it, and print the table.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog="Exit codes: 0 done, 1 some cells failed, 2 the request was wrong.",
)

app.command(cls=SettingsCommand)(train.train)
app.command(cls=SettingsCommand)(attack.attack)
app.command()(evaluate.evaluate)
app.command(cls=SettingsCommand)(profile.profile)
app.command()(table.table)
app.command()(claims.claims)
app.command()(report.report)
app.command()(figure.figure)
app.command()(diff.diff)
app.command()(checklist.checklist)
app.command()(export.export)
app.command()(verify.verify)
app.command()(run.run)
app.command()(check.check)
app.command()(ls.ls)
app.command(cls=SettingsCommand)(show.show)
app.add_typer(account.app, name="account")
app.add_typer(data.app, name="data")
app.command()(doctor.doctor)


@app.callback(invoke_without_command=True)
def _options(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        typer.echo(f"splitbench {__version__}")
        raise typer.Exit


def main() -> None:
    """Errors a user can fix are printed without a traceback; anything else is a bug and keeps it."""
    # Threads that spin while they wait are a gain on an idle machine and a sixfold loss beside one busy process.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    keep_memory()
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    try:
        app()
    except SplitbenchError as error:
        head = "" if error.source else "splitbench: " if len(error.mistakes) == 1 else "splitbench:\n"
        typer.echo(f"{head}{error}", err=True)
        sys.exit(2)
    except BrokenPipeError:
        # The reader of our output left (`| head`); nothing is wrong.
        sys.stderr.close()
        sys.exit(0)
    except KeyboardInterrupt:
        typer.echo(
            "splitbench: stopped; what was finished is stored, and the same command resumes from there", err=True
        )
        sys.exit(130)


if __name__ == "__main__":
    main()
