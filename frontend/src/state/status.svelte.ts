import { Refusal, type Backend, type Status } from '../backend/backend'

const interval = 2000 // ms between looks

/** The app's state as last seen. */
export class StatusState {
  latest = $state.raw<Status | null>(null)
  refusal = $state.raw<Refusal | null>(null)
  readonly #backend: Backend

  constructor(backend: Backend) {
    this.#backend = backend
  }

  /** Looks again and again until the returned function is called. */
  follow(): () => void {
    const stop = new AbortController()
    let timer: ReturnType<typeof setTimeout> | undefined
    const look = async () => {
      try {
        this.latest = await this.#backend.status(stop.signal)
        this.refusal = null
      } catch (cause) {
        if (stop.signal.aborted) return
        this.refusal = cause instanceof Refusal ? cause : new Refusal('internal', String(cause))
      }
      if (!stop.signal.aborted) timer = setTimeout(look, interval)
    }
    void look()
    return () => {
      stop.abort()
      clearTimeout(timer)
    }
  }
}
