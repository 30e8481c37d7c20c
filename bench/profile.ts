/** A CPU profile of a server as text: what takes time itself, and the call tree without its thin branches. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

const MAX_SELF = 30
/** Of the time that the process was not idle, in percent. */
const MIN_SHARE = 1
const MAX_DEPTH = 40

interface ProfileNode {
  readonly id: number
  readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number }
  readonly children?: readonly number[]
}

interface Profile {
  readonly nodes: readonly ProfileNode[]
  readonly samples: readonly number[]
  readonly timeDeltas: readonly number[]
}

/** Writes a summary of the largest profile in a folder: that of the server itself. */
export function summarizeProfile(folder: string, to: string, title: string): void {
  const [largest] = readdirSync(folder)
    .filter((name) => name.endsWith('.cpuprofile'))
    .map((name) => readFileSync(path.join(folder, name), 'utf8'))
    .toSorted((one, other) => other.length - one.length)
  if (largest === undefined) throw new Error(`no profile in ${folder}`)
  mkdirSync(path.dirname(to), { recursive: true })
  writeFileSync(to, `${title}\n\n${summaryOf(JSON.parse(largest) as Profile)}`)
}

function summaryOf({ nodes, samples, timeDeltas }: Profile): string {
  const byId = new Map(nodes.map((node) => [node.id, node]))
  const self = new Map<number, number>()
  for (const [place, id] of samples.entries()) self.set(id, (self.get(id) ?? 0) + (timeDeltas[place] ?? 0))
  const idle = nodes.filter(({ callFrame }) => callFrame.functionName === '(idle)')
  for (const { id } of idle) self.delete(id)
  const total = [...self.values()].reduce((sum, us) => sum + us, 0)
  const share = (us: number): string => `${((us * 100) / total).toFixed(1).padStart(5)} %`

  const byName = new Map<string, number>()
  for (const [id, us] of self) {
    const node = byId.get(id)
    if (node !== undefined) byName.set(nameOf(node), (byName.get(nameOf(node)) ?? 0) + us)
  }
  const top = [...byName].toSorted(([, one], [, other]) => other - one).slice(0, MAX_SELF)

  const whole = new Map<number, number>()
  const sumOf = (id: number): number => {
    const inside = (byId.get(id)?.children ?? []).reduce((sum, child) => sum + sumOf(child), self.get(id) ?? 0)
    whole.set(id, inside)
    return inside
  }
  const [root] = nodes
  if (root === undefined) throw new Error('an empty profile')
  sumOf(root.id)
  const lines: string[] = []
  const draw = (node: ProfileNode, depth: number): void => {
    const us = whole.get(node.id) ?? 0
    if ((us * 100) / total < MIN_SHARE || depth > MAX_DEPTH) return
    lines.push(`${share(us)} ${'  '.repeat(depth)}${nameOf(node)}`)
    const children = (node.children ?? []).flatMap((id) => byId.get(id) ?? [])
    for (const child of children.toSorted((a, b) => (whole.get(b.id) ?? 0) - (whole.get(a.id) ?? 0)))
      draw(child, depth + 1)
  }
  draw(root, 0)
  return [
    `${(total / 1_000_000).toFixed(1)} s of the main thread, without idle time.`,
    `\nBy function, without what it calls:\n`,
    ...top.map(([name, us]) => `${share(us)} ${name}`),
    `\nBy call, down to ${MIN_SHARE} %:\n`,
    ...lines,
    '',
  ].join('\n')
}

/** Names of bundled files end in a hash that changes with each build. */
function nameOf({ callFrame: { functionName, url } }: ProfileNode): string {
  const file = path.basename(url).replace(/-[\w-]{8}\.mjs$/, '')
  return `${functionName === '' ? '(anonymous)' : functionName}${file === '' ? '' : ` (${file})`}`
}
