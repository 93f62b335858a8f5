"""Settings of KafkaMirrorMaker2 resources and of MirrorMaker 2's connectors as a properties file. No IO."""
