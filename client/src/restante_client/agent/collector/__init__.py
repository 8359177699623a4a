"""The collector program: carries out edge commands on the miners of a local inventory, and reports on them."""
