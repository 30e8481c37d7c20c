/** The table of rooms in ARCHITECTURE.md, read: what it says is what is checked. */
import fs from 'node:fs'

/** From a room (`store`) to the rooms that it may import. */
export type Rooms = ReadonlyMap<string, readonly string[]>

export function readRooms(): Rooms {
  const text = fs.readFileSync('ARCHITECTURE.md', 'utf8')
  const [, section = ''] = /^## Rooms\n(.*?)^## /ms.exec(text) ?? []
  const rows = [...section.matchAll(/^\| `src\/(\w+)\/` \| ([^|]*) \|/gm)]
  return new Map(rows.map(([, room = '', imports = '']) => [room, imports.match(/\w+/g) ?? []]))
}

export function roomOf(path: string): string | undefined {
  return /^src\/(\w+)\//.exec(path)?.[1]
}

/** Those who know that there are engines know the port, not the drivers. Only serve.ts names them, to wire them. */
const PORT = 'src/engines/driver.ts'
const namesDrivers = new Set(['src/server/serve.ts'])

/** Why this import is not allowed; undefined: it is. */
export function whyNot(rooms: Rooms, from: string, to: string): string | undefined {
  const [room = '', other] = [roomOf(from), roomOf(to)]
  if (other === undefined) return to === 'package.json' ? undefined : `${from} imports ${to}, which is not in src/`
  if (to.endsWith('.test.ts')) return `${from} imports the test ${to}`
  if (other === room) return undefined
  if (rooms.get(room)?.includes(other) !== true) return `${from} imports ${to}: ${room} may not know ${other}`
  if (other === 'engines' && to !== PORT && !namesDrivers.has(from))
    return `${from} imports ${to}: only the port is known`
  return undefined
}
