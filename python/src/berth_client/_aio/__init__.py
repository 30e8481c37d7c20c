"""The asynchronous client. `_sync` has the same code without `await`; scripts/python-sync.ts writes it."""
