package mail

// AsRemote makes a Sender treat its server as one on another machine.
func AsRemote(s *Sender) *Sender {
	s.server.loopback = false
	return s
}
