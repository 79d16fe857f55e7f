"""Flow runs of ours whose process died: Prefect leaves them `Running` for ever, so the next run marks them Crashed."""

from __future__ import annotations

from prefect import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterState, FlowRunFilterStateType, FlowRunFilterTags
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.states import Crashed

from launchers.labels import OwnerProcess, start_ticks, this_process

TAG = "assay"
_OWNER = "assay.owner="


def run_tags() -> list[str]:
    """Tags of a flow run of this process."""
    return [TAG, f"{_OWNER}{this_process().label()}"]


def mark_orphans() -> int:
    """Mark the running flow runs of dead processes Crashed; how many there were."""
    states = FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.RUNNING, StateType.PENDING]))
    ours = FlowRunFilter(tags=FlowRunFilterTags(all_=[TAG]), state=states)
    with get_client(sync_client=True) as client:
        orphans = [run for run in client.read_flow_runs(flow_run_filter=ours) if _is_orphan(run)]
        for run in orphans:
            client.set_flow_run_state(run.id, Crashed(message="the process that ran it is gone"), force=True)
    return len(orphans)


def _is_orphan(run: FlowRun) -> bool:
    labels = [tag.removeprefix(_OWNER) for tag in run.tags if tag.startswith(_OWNER)]
    owner = OwnerProcess.parse(labels[0]) if labels else None
    here = this_process()
    if owner is None or owner.namespace != here.namespace:
        return False
    return owner.boot_id != here.boot_id or start_ticks(owner.pid) != owner.started
