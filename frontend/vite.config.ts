import { svelte } from '@sveltejs/vite-plugin-svelte'
import { defineConfig } from 'vite'

// The oldest web view to run in is Safari 16 (macOS 13).
export default defineConfig({
  plugins: [svelte()],
  build: { target: 'safari16', modulePreload: { polyfill: false } },
  // The sentences lie beside the Go code that shares them.
  server: { fs: { allow: ['.', '../assets'] } },
})
