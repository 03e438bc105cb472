package local

// UsualFolders are the folders that Start searches for binaries by default.
func UsualFolders() []string { return usualFolders() }
