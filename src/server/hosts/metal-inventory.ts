/** Adds bare-metal hosts of the operator: one at a time over the API, or all from a file. */
import { readFile } from 'node:fs/promises'
import { addMetalHost } from '../../app/supply/host.ts'
import type { App } from '../../app/app.ts'
import { failField, ok, type Result } from '../../contract/result.ts'
import { parseInventory, type InventoryHost } from '../../drivers/metal/inventory.ts'
import { transact } from '../../store/platform/database.ts'
import { findHost, isReachedOverSsh } from '../../store/host/host.ts'
import { changeMetalHost, sealMetal } from './metal-world.ts'
import { SettingsError } from '../settings.ts'

/** Validates by the rules of the inventory file: SSH keys, folders that must not be wiped. */
export function readMetalEntry(body: { readonly id: string }): Result<InventoryHost> {
  const read = parseInventory(JSON.stringify({ hosts: [body] }))
  const host = read.kind === 'read' ? read.hosts[0] : undefined
  if (host !== undefined) return ok(host)
  const [fault = 'not a valid inventory entry'] = read.kind === 'faulty' ? read.faults : []
  const [, field, sentence] = /^host [^:]*: ([\w.]+): (.*)$/s.exec(fault) ?? []
  return failField(field === undefined ? [] : field.split('.'), 'bad_inventory', { message: sentence ?? fault })
}

/**
 * Adds new hosts from the file and updates changed ones. A host that is no longer in the file stays: a lost line must
 * not end a tenancy. An error in the file stops the start.
 */
export async function importInventory(app: App, file: string): Promise<void> {
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    throw new SettingsError(`BERTH_INVENTORY: ${file} cannot be read: ${String(error)}`)
  })
  const read = parseInventory(text)
  if (read.kind === 'faulty') throw new SettingsError(`BERTH_INVENTORY: ${read.faults.join('; ')}`)
  for (const host of read.hosts) {
    const existing = await findHost(app.database.db, host.id)
    if (existing !== undefined && isReachedOverSsh(existing) && existing.state !== 'left') {
      await changeMetalHost(app, existing, host)
      continue
    }
    const { id, offer, address, access, declared } = host
    const row = { id, offer, address, access: sealMetal(app, access, declared) }
    const result = await transact(app.database, (tx) => addMetalHost(tx, 'inventory file', row))
    if (!result.ok) throw new SettingsError(`BERTH_INVENTORY: host ${id}: ${result.message}`)
  }
}
