import { Refusal, type Backend, type SearchReply } from '../backend/backend'

/** One search at a time; a newer one replaces the one under way. */
export class SearchState {
  query = $state('')
  busy = $state(false)
  reply = $state.raw<SearchReply | null>(null)
  refusal = $state.raw<Refusal | null>(null)
  readonly #backend: Backend
  #running: AbortController | null = null

  constructor(backend: Backend) {
    this.#backend = backend
  }

  async run(): Promise<void> {
    const query = this.query.trim()
    if (query === '') return
    this.#running?.abort()
    const mine = new AbortController()
    this.#running = mine
    this.busy = true
    try {
      const reply = await this.#backend.search(query, mine.signal)
      if (this.#running !== mine) return
      this.reply = reply
      this.refusal = null
    } catch (cause) {
      if (this.#running !== mine) return
      this.reply = null
      this.refusal = cause instanceof Refusal ? cause : new Refusal('internal', String(cause))
    } finally {
      if (this.#running === mine) this.busy = false
    }
  }
}
