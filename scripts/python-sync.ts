/** Asynchronous Python as synchronous Python: the same code without `async`, `await` and their names. */

const words: ReadonlyArray<readonly [RegExp, string]> = [
  [/\basync (def|with|for)\b/g, '$1'],
  [/\bawait /g, ''],
  [/\bimport asyncio\b/g, 'import time'],
  [/\basyncio\.sleep\b/g, 'time.sleep'],
  [/\bAsync(Iterator|Client|Pages|Transport|Generator|OpenAI)\b/g, '$1'],
  [/\bAsyncContextManager\b/g, 'ContextManager'],
  [/\basynccontextmanager\b/g, 'contextmanager'],
  [/\b__a(iter|next|enter|exit)__\b/g, '__$1__'],
  [/\ba(close|read|iter_raw|iter_bytes|iter_lines|iter_text|send)\b/g, '$1'],
  [/\baclosing\b/g, 'closing'],
  [/\basync_auth_flow\b/g, 'sync_auth_flow'],
  [/_aio\b/g, '_sync'],
]

export function syncOf(text: string): string {
  const sync = words.reduce((before, [pattern, replacement]) => before.replaceAll(pattern, replacement), text)
  const leftover = /\b(await|\w*[Aa]sync\w*)\b/.exec(sync.replaceAll(/"""[^]*?"""|#.*/g, ''))
  if (leftover !== null) throw new Error(`scripts/python-sync.ts has no synchronous form of "${leftover[0]}"`)
  return sync
}
