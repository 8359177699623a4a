"""What programs cost before they do any work: installed size, memory, and the time to start."""
