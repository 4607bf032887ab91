package keychain

import (
	"context"
	"fmt"
	"sync"
)

// Memory is a keychain for tests: it forgets everything with the process. The
// zero value is empty and ready for use.
type Memory struct {
	mu      sync.Mutex
	secrets map[string]string // guarded by mu
}

// Get returns the secret of an account, or an error that wraps ErrNotFound.
func (m *Memory) Get(_ context.Context, account string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	secret, ok := m.secrets[account]
	if !ok {
		return "", fmt.Errorf("%w: %s", ErrNotFound, account)
	}
	return secret, nil
}

// Set puts a secret in.
func (m *Memory) Set(_ context.Context, account, secret string) error {
	if err := CheckAccount(account); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.secrets == nil {
		m.secrets = map[string]string{}
	}
	m.secrets[account] = secret
	return nil
}

// Delete takes a secret out.
func (m *Memory) Delete(_ context.Context, account string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.secrets[account]; !ok {
		return fmt.Errorf("%w: %s", ErrNotFound, account)
	}
	delete(m.secrets, account)
	return nil
}
