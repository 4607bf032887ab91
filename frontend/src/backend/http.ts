import { Refusal, type Backend, type SearchReply, type Status } from './backend'

/** The adapter over HTTP: in the window the asset handler answers, in a browser the app's own address. */
export function httpBackend(base = '/ondol/v1'): Backend {
  async function call<T>(path: string, signal: AbortSignal, body?: unknown): Promise<T> {
    const init: RequestInit = { signal }
    if (body !== undefined) {
      // A string, never a Blob: WebKit hands the window no body otherwise.
      init.method = 'POST'
      init.headers = { 'Content-Type': 'application/json' }
      init.body = JSON.stringify(body)
    }
    let reply: Response
    try {
      reply = await fetch(base + path, init)
    } catch (cause) {
      if (signal.aborted) throw cause
      throw new Refusal('not_running', String(cause))
    }
    const text = await reply.text()
    let value: unknown
    try {
      value = JSON.parse(text)
    } catch {
      throw new Refusal('internal', `HTTP ${reply.status}`)
    }
    if (reply.ok) return value as T
    const error = (value as { error?: { code?: string; message?: string; remedy?: string } }).error
    throw new Refusal(error?.code ?? 'internal', error?.message ?? `HTTP ${reply.status}`, error?.remedy)
  }
  return {
    status: (signal) => call<Status>('/status', signal),
    search: (query, signal) => call<SearchReply>('/search', signal, { query, limit: 10 }),
  }
}
