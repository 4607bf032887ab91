// Package frontend carries the built page of the window.
//
// Only app imports it. With the build tag desktop the page that vite built is
// embedded; without it nothing is, so that tests and the headless build need
// no Node.
package frontend
