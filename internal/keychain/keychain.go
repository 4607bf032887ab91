// Package keychain keeps secrets where the system keeps them: the login
// keychain of macOS, the Secret Service of a Linux desktop.
//
// Only the composition root imports it, and hands others a function that gives
// them the one secret they need. There is no file to fall back to: where the
// system keeps no secrets, that is an error that says so. Tests choose Memory
// by name.
package keychain

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"

	"github.com/zalando/go-keyring"
)

// Service is the name under which all secrets of this app are kept; the
// account names the one.
const Service = "ondol"

var (
	// ErrNotFound says that there is no such account.
	ErrNotFound = errors.New("no such account in the keychain")
	// ErrUnavailable says that there is no keychain, or that it stays closed.
	ErrUnavailable = errors.New("the keychain cannot be used")
)

// Keychain reads and writes secrets by account.
type Keychain interface {
	Get(ctx context.Context, account string) (string, error)
	Set(ctx context.Context, account, secret string) error
	Delete(ctx context.Context, account string) error
}

// accounts are names that mean the same in every keychain and on every command
// line.
var accounts = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// CheckAccount says what is wrong with an account's name, if anything.
func CheckAccount(name string) error {
	if !accounts.MatchString(name) {
		return errors.New("an account name of at most 64 letters, digits, dots, dashes and underscores is needed")
	}
	return nil
}

// System is the keychain of this system. Its methods return when ctx ends,
// even while the system still waits for a person to unlock it; the call then
// ends on its own when that person does.
type System struct{}

// Get returns the secret of an account, or an error that wraps ErrNotFound or
// ErrUnavailable and names the remedy. It never holds the secret.
func (System) Get(ctx context.Context, account string) (string, error) {
	return do(ctx, account, func() (string, error) { return keyring.Get(Service, account) })
}

// Set puts a secret in, in place of an older one.
func (System) Set(ctx context.Context, account, secret string) error {
	_, err := do(ctx, account, func() (string, error) { return "", keyring.Set(Service, account, secret) })
	return err
}

// Delete takes a secret out.
func (System) Delete(ctx context.Context, account string) error {
	_, err := do(ctx, account, func() (string, error) { return "", keyring.Delete(Service, account) })
	return err
}

// do makes a call that cannot be cancelled.
func do(ctx context.Context, account string, call func() (string, error)) (string, error) {
	if err := CheckAccount(account); err != nil {
		return "", err
	}
	type result struct {
		secret string
		err    error
	}
	done := make(chan result, 1)
	go func() {
		secret, err := call()
		done <- result{secret, err}
	}()
	select {
	case r := <-done:
		switch {
		case r.err == nil:
			return r.secret, nil
		case errors.Is(r.err, keyring.ErrNotFound):
			return "", fmt.Errorf("%w: %s; store it with: %s", ErrNotFound, account, storing(account))
		}
		return "", fmt.Errorf("%w: %w", ErrUnavailable, r.err)
	case <-ctx.Done():
		return "", fmt.Errorf("%w: it was not unlocked in time: %w", ErrUnavailable, context.Cause(ctx))
	}
}

// storing is the system's own command, which asks for the secret and shows it
// to nobody.
func storing(account string) string {
	if runtime.GOOS == "darwin" {
		return "security add-generic-password -U -s " + Service + " -a " + account + " -w"
	}
	return "secret-tool store --label=Ondol service " + Service + " username " + account
}
