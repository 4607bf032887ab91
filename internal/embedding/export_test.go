package embedding

// Aloft is how many texts are being computed or wait for it.
func (s *Service) Aloft() int {
	s.flights.mu.Lock()
	defer s.flights.mu.Unlock()
	return len(s.flights.byKey)
}
