/**
 * The Node that an image ships: the long-term version below, whatever version builds it. A checkout also runs on Node 20,
 * which is past its end of life and is not shipped. It comes as an npm package, downloaded once into the user's cache.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'

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
  const caches = process.env['XDG_CACHE_HOME'] ?? path.join(os.homedir(), '.cache')
  const folder = path.join(caches, 'berth', `node-${RELEASE_NODE}-${process.arch}`)
  const program = path.join(folder, 'bin', 'node')
  if (!fs.existsSync(program)) download(folder, integrity)
  return program
}

/** Into a folder of its own first: a download that is cut off, or one beside this one, leaves nothing half done. */
function download(folder: string, integrity: string): void {
  fs.mkdirSync(path.dirname(folder), { recursive: true })
  const unpacked = fs.mkdtempSync(`${folder}-`)
  try {
    const name = `node-linux-${process.arch}@${RELEASE_NODE}`
    const packed = execFileSync('npm', ['pack', '--silent', '--pack-destination', unpacked, name], { encoding: 'utf8' })
    const archive = path.join(unpacked, packed.trim())
    if (createHash('sha512').update(fs.readFileSync(archive)).digest('base64') !== integrity) {
      throw new Error(`The package ${name} is not the one that was released.`)
    }
    const parts = ['package/bin/node', 'package/LICENSE']
    execFileSync('tar', ['-xzf', archive, '-C', unpacked, '--strip-components=1', ...parts])
    fs.rmSync(archive)
    fs.chmodSync(unpacked, 0o755)
    if (!fs.existsSync(folder)) fs.renameSync(unpacked, folder)
  } finally {
    fs.rmSync(unpacked, { recursive: true, force: true })
  }
}
