"""Makes a properties file of another deployment of MirrorMaker 2: `core` without IO, `service` reads the files."""
