package server

// openFiles returns the maximum number of open files of this process. Windows has no such limit.
func openFiles() uint64 { return 1 << 20 }
