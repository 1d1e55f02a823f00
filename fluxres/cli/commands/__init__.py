"""The commands, one module each; :mod:`fluxres.cli.program` lists them and imports only the one that runs."""
