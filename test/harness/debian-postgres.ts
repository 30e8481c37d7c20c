/**
 * PostgreSQL as Debian packages it, on which an operator may run Berth. Debian 12 has the oldest version that Berth
 * supports; the npm package has the newest.
 */
import { existsSync, readdirSync } from 'node:fs'
import path from 'node:path'

const HOME = '/usr/lib/postgresql'

/** Folder of the programs of the oldest version that is installed. */
export function debianPostgres(): string {
  const [oldest] = installedVersions()
  if (oldest === undefined) throw new Error(`There is no PostgreSQL in ${HOME}. Install the package postgresql.`)
  return path.join(HOME, oldest.toString(), 'bin')
}

/** undefined: it is there. */
export function whyNoDebianPostgres(): string | undefined {
  return installedVersions().length > 0 ? undefined : 'the Debian package postgresql is not installed'
}

function installedVersions(): number[] {
  const versions = existsSync(HOME) ? readdirSync(HOME).map(Number) : []
  return versions.filter((one) => existsSync(path.join(HOME, one.toString(), 'bin/postgres'))).toSorted((a, b) => a - b)
}
