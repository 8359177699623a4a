"""The programs of `restante-agent`: long-running clients with a configuration file, a state folder and JSON logs.

    restante-agent device|collector|receiver  run [--once] | status [--json] | doctor

`main` reads the arguments, `config` the file, `logs` writes the log lines, `stopping` ends a program on SIGTERM, and
`program` is the interface that each program implements. A program's modules are imported when it is started.
"""
