/** Parses the table of rooms in ARCHITECTURE.md, which the tests enforce. */
import fs from 'node:fs'

/** From a room (`store`) to the rooms that it may import. */
export type Rooms = ReadonlyMap<string, readonly string[]>

export function readRooms(): Rooms {
  const text = fs.readFileSync('ARCHITECTURE.md', 'utf8')
  const [, section = ''] = /^## Rooms\n(.*?)^## /ms.exec(text) ?? []
  const rows = [...section.matchAll(/^\| `(?:src\/)?(\w+)\/` \| ([^|]*) \|/gm)]
  return new Map(rows.map(([, room = '', imports = '']) => [room, imports.match(/\w+/g) ?? []]))
}

export function roomOf(path: string): string | undefined {
  const [, room, own] = /^(?:src\/(\w+)|(console))\//.exec(path) ?? []
  return room ?? own
}

/**
 * Deciding code knows the driver port and no driver. In the server, only the parts that wire drivers and the
 * files that decrypt the secrets of bare metal name them; the agent is built from runtimes.
 */
const PORTS = ['src/drivers/driver.ts', 'src/runtimes/stream.ts']
const knowsDrivers = (from: string): boolean =>
  from.startsWith('src/drivers/') ||
  from.startsWith('src/agent/') ||
  from.startsWith('src/server/parts/') ||
  /^src\/server\/hosts\/metal-(world|inventory)\.ts$/.test(from)

/** Why this import is not allowed; undefined: it is. */
export function whyNot(rooms: Rooms, from: string, to: string): string | undefined {
  const [room = '', other] = [roomOf(from), roomOf(to)]
  if (other === undefined) return to === 'package.json' ? undefined : `${from} imports ${to}, which is in no room`
  if (to.endsWith('.test.ts')) return `${from} imports the test ${to}`
  if (other === room) return undefined
  if (rooms.get(room)?.includes(other) !== true) return `${from} imports ${to}: ${room} may not know ${other}`
  if (['drivers', 'runtimes'].includes(other) && !PORTS.includes(to) && !knowsDrivers(from)) {
    return `${from} imports ${to}: only the port is known`
  }
  return undefined
}
