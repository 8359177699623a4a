"""The servers of a fault campaign: one server on a data folder, or one or two nodes on one PostgreSQL."""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from pathlib import Path

from restante.cli.database import open_database_for
from restante.database.database import Database
from restante.server.config.settings import Settings
from restante.server.config.url_setting_types import DatabaseAddress
from tests.faults.nodes.cluster import Cluster
from tests.faults.server_process import PROGRAM, CommandResult, PreparedData, ServerProcess, prepare_data, run_command


class Deployment(ABC):
    nodes: list[ServerProcess]
    prepared: PreparedData

    @abstractmethod
    def start(self) -> None:
        """Start all servers and wait until they are ready."""

    @abstractmethod
    def opened(self) -> AbstractContextManager[Database]:
        """Open the database from outside the servers, as a CLI command does."""

    @abstractmethod
    def run(self, *command: str) -> CommandResult:
        """Run a command of the installed program."""

    @property
    def ports(self) -> list[int]:
        return [node.port for node in self.nodes]

    def end(self) -> None:
        for node in self.nodes:
            node.end()


class SingleServer(Deployment):
    def __init__(self, folder: Path, *flags: str) -> None:
        self.prepared = prepare_data(folder / "data")
        self.nodes = [ServerProcess(self.prepared.data, *flags)]

    def start(self) -> None:
        self.nodes[0].start()
        self.nodes[0].wait_until_ready()

    def opened(self) -> AbstractContextManager[Database]:
        return open_database_for(Settings(data=self.prepared.data))

    def run(self, *command: str) -> CommandResult:
        return run_command(self.prepared.data, *command)


class TwoNodes(Deployment):
    number = 2

    def __init__(self, cluster: Cluster, *flags: str, command: tuple[str, ...] = (PROGRAM,)) -> None:
        self._cluster = cluster
        self._command = command
        self._flags = flags
        self.prepared = cluster.prepared
        self.nodes = []

    def start(self) -> None:
        self.nodes = [self._cluster.add(*self._flags, command=self._command) for _ in range(self.number)]
        self._cluster.wait_until_ready()

    def opened(self) -> AbstractContextManager[Database]:
        return open_database_for(Settings(data=self.prepared.data, database=DatabaseAddress(self._cluster.url)))

    def run(self, *command: str) -> CommandResult:
        return run_command(self.nodes[0].data, *command)


class OneNode(TwoNodes):
    number = 1
