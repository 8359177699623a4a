"""What operators use: the fleet list, bulk changes, pages of the console; and polls beside open consoles."""
