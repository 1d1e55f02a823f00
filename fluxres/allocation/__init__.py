"""Which job holds what, and when: the records of RFC 4 and RFC 16, and their single writer."""
