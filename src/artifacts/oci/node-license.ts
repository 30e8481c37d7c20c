/** Finds the license of Node: beside the program in an archive, or where distributions install it. */
import fs from 'node:fs'
import path from 'node:path'

const places = [
  '../LICENSE',
  '../share/doc/nodejs/LICENSE',
  '../share/doc/node/LICENSE',
  '../share/doc/nodejs/copyright',
]

/** undefined: the license is in none of the known places. */
export function findNodeLicense(node: string): string | undefined {
  return places.map((name) => path.resolve(path.dirname(node), name)).find((file) => fs.existsSync(file))
}
