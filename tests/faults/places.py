"""Where a campaign's servers live: one alone on a data folder, or two nodes on one PostgreSQL."""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from pathlib import Path

from restante.cli.opening import opened_for
from restante.database.database import Database
from restante.server.setting_kinds import DatabaseAddress
from restante.server.settings import Settings
from tests.faults.nodes_cluster import Cluster
from tests.faults.server_process import PROGRAM, Finished, Prepared, ServerProcess, prepare, run_command


class Place(ABC):
    nodes: list[ServerProcess]
    prepared: Prepared

    @abstractmethod
    def start(self) -> None:
        """All of them; they are ready after that."""

    @abstractmethod
    def opened(self) -> AbstractContextManager[Database]:
        """The database, for somebody beside the servers, as a command is."""

    @abstractmethod
    def run(self, *command: str) -> Finished:
        """A command of the installed program."""

    @property
    def ports(self) -> list[int]:
        return [node.port for node in self.nodes]

    def end(self) -> None:
        for node in self.nodes:
            node.end()


class Alone(Place):
    def __init__(self, folder: Path, *flags: str) -> None:
        self.prepared = prepare(folder / "data")
        self.nodes = [ServerProcess(self.prepared.data, *flags)]

    def start(self) -> None:
        self.nodes[0].start()
        self.nodes[0].wait_until_ready()

    def opened(self) -> AbstractContextManager[Database]:
        return opened_for(Settings(data=self.prepared.data))

    def run(self, *command: str) -> Finished:
        return run_command(self.prepared.data, *command)


class TwoNodes(Place):
    def __init__(self, cluster: Cluster, *flags: str, command: tuple[str, ...] = (PROGRAM,)) -> None:
        self._cluster = cluster
        self._command = command
        self._flags = flags
        self.prepared = cluster.prepared
        self.nodes = []

    def start(self) -> None:
        self.nodes = [self._cluster.add(*self._flags, command=self._command) for _ in range(2)]
        self._cluster.wait_until_ready()

    def opened(self) -> AbstractContextManager[Database]:
        return opened_for(Settings(data=self.prepared.data, database=DatabaseAddress(self._cluster.url)))

    def run(self, *command: str) -> Finished:
        return run_command(self.prepared.data, *command, "--database", self._cluster.url)
