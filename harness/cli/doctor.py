"""`harness doctor`: what on this machine would spoil a measurement now."""

from __future__ import annotations

import os

import typer

from harness.exit_codes import ExitCode


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def doctor() -> None:
        """Say in plain words what would spoil numbers here. Exit code 1 when something would."""
        from harness.hardware.health import judge
        from harness.hardware.machine import observe

        findings = judge(observe(os.environ))
        for finding in findings:
            mark = {"good": "ok  ", "note": "note", "bad": "BAD "}[finding.level]
            print(f"{mark}  {finding.subject}: {finding.says}")
            if finding.advice:
                print(f"      {finding.advice}")
        bad = [finding.subject for finding in findings if finding.level == "bad"]
        if bad:
            print(f"\nNumbers measured now would be worth less: {', '.join(bad)}.")
            raise typer.Exit(ExitCode.NEGATIVE)
        print("\nNothing here would spoil a measurement.")
