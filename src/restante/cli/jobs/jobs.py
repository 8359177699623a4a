"""`restante job`: bulk actions that the server runs, and their progress."""

import time
from typing import Annotated, Any

import typer

from restante.cli.output import Column, Columns, identity, print_one, when
from restante.cli.remote import completion
from restante.cli.remote.arguments import ReasonOption, given, job_of
from restante.cli.remote.filters import choice_of
from restante.cli.remote.noun import Call, Item, Noun, Page
from restante.cli.remote.progress import ProgressBar

JOB = Noun("Bulk actions that the server runs as jobs.")
app = JOB.app

FOLLOW_SECONDS = 1.0
ENDED = ("done", "aborted", "failed")
STATES = ("pending_approval", "queued", "running", "paused", *ENDED)
TARGETS = ("devices", "outbox", "miners", "commands", "events", "rollout_devices", "rollout_miners")
JobArgument = Annotated[
    str, typer.Argument(metavar="JOB", help="The job's id, or its beginning.", autocompletion=completion.JOBS)
]


def _progress(job: Any) -> str:
    ended = job["done"] + job["failed"] + job["skipped"]
    return f"{ended} of {job['total']}" + (f", {job['failed']} failed" if job["failed"] else "")


COLUMNS: Columns = {
    "id": identity("job_id"),
    "action": "action",
    "on": "target",
    "state": "state",
    "progress": Column(_progress),
    "made": when("created_at"),
    "by": "created_by",
}
FIELDS: Columns = {
    **COLUMNS,
    "done": "done",
    "failed": "failed",
    "skipped": "skipped",
    "outcomes": "outcomes",
    "filter": "filter",
    "params": "params",
    "rate per second": "rate_per_second",
    "reason": "reason",
    "approved by": "approved_by",
    "started": when("started_at"),
    "finished": when("finished_at"),
}


@JOB.lists(
    COLUMNS,
    empty="No jobs.",
    filters={
        "state": choice_of("--state", STATES, "Only in this state."),
        "target": choice_of("--on", TARGETS, "Only on these things."),
    },
)
def list_jobs(call: Call) -> Page:
    """List jobs, newest first."""
    return call.page(call.client.jobs.list_page, **call.filters)


@JOB.shows(FIELDS)
def show(call: Call, job: JobArgument) -> Item:
    """Show a job and its progress."""
    return dict(call.client.jobs.get(job_of(call, job)))


@JOB.lists(
    {
        "item": "item",
        "name": "ref",
        "state": "state",
        "result": Column(lambda item: item.get("result"), is_id=True),
        "outcome": "outcome",
        "error": "error",
        "at": when("at"),
    },
    empty="No items.",
    name="items",
    filters={"state": choice_of("--state", ("done", "failed", "skipped"), "Only in this state.")},
)
def items(call: Call, job: JobArgument) -> Page:
    """List the result of each item of a job."""
    return call.page(call.client.jobs.items_page, job_of(call, job), **call.filters)


@JOB.runs("watch")
def watch(call: Call, job: JobArgument) -> None:
    """Follow a job with a progress bar until it ends. Exit code 1 if an item failed, or the job did."""
    finish(call, follow(call, job_of(call, job)))


@JOB.does("pause", "Job {job_id} is {state}.")
def pause(call: Call, job: JobArgument) -> Any:
    """Stop a job for a while."""
    return call.client.jobs.pause(job_of(call, job))


@JOB.does("resume", "Job {job_id} is {state}.")
def resume(call: Call, job: JobArgument) -> Any:
    """Go on with a paused job, at the same place."""
    return call.client.jobs.resume(job_of(call, job))


@JOB.does("abort", "Job {job_id} is {state}: {done} done, {failed} failed, {skipped} skipped.", asks=True)
def abort(call: Call, job: JobArgument) -> Any:
    """End a job. What is done stays done."""
    found = call.client.jobs.get(job_of(call, job))
    call.confirm(f"This ends job {found['job_id']} ({found['action']}) after {_progress(found)}.")
    return call.client.jobs.abort(found["job_id"])


@JOB.does("approve", "Job {job_id} is {state}.")
def approve(call: Call, job: JobArgument) -> Any:
    """Approve a job. This needs `restante login` as a person who did not create it."""
    return call.client.jobs.approve(job_of(call, job))


@JOB.does("deny", "Job {job_id} is {state}.")
def deny(call: Call, job: JobArgument, reason: ReasonOption = None) -> Any:
    """Refuse a job that waits for approval."""
    return call.client.jobs.deny(job_of(call, job), **given(reason=reason))


def follow(call: Call, job_id: str) -> Any:
    """Draw the progress of a job until it ends, or waits for a person; return it."""
    bar = ProgressBar()
    try:
        while True:
            job = call.client.jobs.get(job_id)
            ended = job["done"] + job["failed"] + job["skipped"]
            bar.draw(ended, job["total"], job["state"], _progress(job))
            if job["state"] in (*ENDED, "paused", "pending_approval"):
                return job
            time.sleep(FOLLOW_SECONDS)
    except KeyboardInterrupt:
        typer.echo(f"\nThe job goes on: restante job watch {job_id}", err=True)
        raise typer.Exit(130) from None
    finally:
        bar.close()


def finish(call: Call, job: Any) -> None:
    """Print a job that was followed; exit code 1 if it, or an item of it, failed."""
    print_one(dict(job), FIELDS, as_json=call.is_json, is_utc=call.is_utc)
    if job["failed"] and not call.is_json:
        typer.echo(f"restante job items {job['job_id']} --state failed shows why items failed.", err=True)
    if job["failed"] or job["state"] in ("failed", "aborted"):
        raise typer.Exit(1)
