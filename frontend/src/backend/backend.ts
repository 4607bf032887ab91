/** The control contract as the page uses it: a part of what the app answers, named as on the wire. */

export interface Counts {
  found: number
  indexed: number
  skipped: number
  failed: number
  pending: number
}

export interface Status {
  version: string
  endpoint: string
  engine: { state: string; last_error?: { code: string; message: string }; model?: { name?: string; dimension?: number } }
  admission: { executing: number; waiting: number }
  index: { folders: number; counts: Counts }
}

export interface Result {
  document: number
  chunk: number
  path: string
  title: string
  location: { lines?: [number, number]; heading?: string }
  /** Marks are byte offsets into the UTF-8 text. */
  snippet: { text: string; marks: [number, number][] | null }
}

export interface SearchReply {
  results: Result[] | null
  evidence: { found: boolean; reason?: string }
  index: { pending: number }
}

/** What the app refused, with the remedy for a person. */
export class Refusal extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly remedy = '',
  ) {
    super(message)
  }
}

/** The only thing views and state know of the app. Every call rejects with a Refusal. */
export interface Backend {
  status(signal: AbortSignal): Promise<Status>
  search(query: string, signal: AbortSignal): Promise<SearchReply>
}
