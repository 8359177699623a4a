"""Install configs: the versioned list of what a device must install."""
