export interface Piece {
  text: string
  marked: boolean
}

/**
 * Cuts a snippet at its marks. Marks are [start, end) byte offsets into the UTF-8 text; they may touch or overlap,
 * and one that does not fit is left out.
 */
export function pieces(text: string, marks: readonly (readonly [number, number])[]): Piece[] {
  const bytes = new TextEncoder().encode(text)
  const decode = (from: number, to: number) => new TextDecoder().decode(bytes.subarray(from, to))
  const out: Piece[] = []
  let at = 0
  for (const [start, end] of [...marks].sort((a, b) => a[0] - b[0])) {
    const from = Math.max(start, at)
    if (end <= from || end > bytes.length) continue
    if (from > at) out.push({ text: decode(at, from), marked: false })
    out.push({ text: decode(from, end), marked: true })
    at = end
  }
  if (at < bytes.length) out.push({ text: decode(at, bytes.length), marked: false })
  return out
}
