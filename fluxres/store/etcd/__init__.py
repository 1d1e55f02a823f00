"""A store in etcd, which several machines share.

It speaks the JSON form of etcd's API over HTTP, so it needs no package. All keys are under the prefix of the address:

- ``state/head``: one small key that every commit rewrites, on condition that it has not changed since the transaction began;
- ``state/graphs/N``: a document of a few hundred bytes for each graph: its row, and where the parts of its snapshots are;
- ``state/notes/KEY``: what else is known of the store. One request reads the whole state;
- ``answers/KEY``: notes of what servers answered and of the jobs of instances, of which there are thousands;
- ``events/N/SEQ``, ``blobs/N/GENERATION/PART``, ``tickets/N/NUMBER``;
- ``pending/ID``: a transaction that was too large for one request and is being written ahead;
- ``lock/…``: the queue of writers.

A commit is one transaction of etcd. It requires that the head is unchanged and that the writer still has the lock, so a writer
that was paused for longer than its lease cannot do harm. What does not fit into one request (1.5 MiB, 128 operations) is
written ahead: blobs of a generation to which no document refers yet, and events above the number of the last one. The commit
makes it visible; if it never comes, the next writer removes it.
"""
