"""Passes commit events to a component in the way a node does, and reads the metrics of a component."""

from restante.server.component_list import ComponentList
from restante.web.component import Component, HistogramValue


def handle(component: Component, *events: object) -> None:
    ComponentList([component]).handle_commit_events(events)


def metric_values(component: Component) -> dict[tuple[str, ...], float]:
    """The value of each sample, by its name and labels. The value of a histogram is its sum."""
    return {
        (sample.name, *sample.labels): sample.value.sum if isinstance(sample.value, HistogramValue) else sample.value
        for sample in component.metrics()
    }
