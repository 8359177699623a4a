"""`restante demo`: a server with a simulated fleet, made with the operator API and the client programs only.

    demo (this process)
     ├─ restante serve                       on a temporary folder
     ├─ restante-simulated-miners  × sites   miners that heat up, fail and recover
     ├─ restante-agent collector   × sites
     ├─ restante-agent device      × 1
     ├─ restante-agent receiver    × 2
     ├─ 199 × DeviceClient, 2 × EventReceiver (in this process)
     └─ story: what operators do, with OperatorClient

The package uses nothing inside the server: every user can do the same.
"""
