/**
 * The Node that an image ships: the long-term version below, whatever version builds it. A checkout also runs on Node 20,
 * which is past its end of life and is not shipped. It comes as an npm package, downloaded once into the user's cache.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { npmFolder } from './cache-folder.ts'

export const RELEASE_NODE = '24.21.0'
/** The SHA-512 of the package for each architecture, as registries state it. */
const INTEGRITY: Readonly<Record<string, string>> = {
  x64: '3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==',
  arm64: 'FpJRPEz2OvvTLfjIOlNGFY9JLPMKgl5m+d4oGYBLg24kJ1mmvN1Zl/HPJgF4HDaJ51ISev1l1cRZ/DM+keXW5g==',
}

/** The path of its program, with the license in the folder above. */
export function releaseNode(): string {
  const [major] = RELEASE_NODE.split('.')
  if (process.versions.node.split('.')[0] === major) return fs.realpathSync(process.execPath)
  const integrity = INTEGRITY[process.arch]
  if (process.platform !== 'linux' || integrity === undefined) {
    throw new Error(`Images are built on Linux with x64 or arm64, or with Node ${major}.`)
  }
  const name = `node-linux-${process.arch}@${RELEASE_NODE}`
  const folder = npmFolder(`node-${RELEASE_NODE}-${process.arch}`, name, (work, archive) => {
    if (createHash('sha512').update(fs.readFileSync(archive)).digest('base64') !== integrity)
      throw new Error(`The package ${name} is not the one that was released.`)
    const parts = ['package/bin/node', 'package/LICENSE']
    execFileSync('tar', ['-xzf', archive, '-C', work, '--strip-components=1', ...parts])
  })
  return path.join(folder, 'bin', 'node')
}
