package language

// With returns the language with the translations of another file.
func (l *Language) With(file string) *Language {
	c := *l
	all := parse(file)
	c.load = func() translations { return all }
	return &c
}
