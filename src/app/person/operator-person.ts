/** An operator disables a person, or enables them again. Sessions end; keys are refused while the person is disabled. */
import { fail, failField, ok, type Result } from '../../contract/result.ts'
import { deleteSessionsOf } from '../../store/account/console-session.ts'
import { listPeoplePage, type ListedPerson } from '../../store/account/operator-person.ts'
import { findPerson, setDisabled } from '../../store/account/person.ts'
import { writeAudit } from '../../store/platform/audit.ts'
import type { Tx } from '../../store/platform/database.ts'
import type { Actor } from '../app.ts'

export async function changePerson(
  tx: Tx,
  actor: Actor,
  { id, disabled, reason }: { readonly id: string; readonly disabled: boolean; readonly reason: string },
): Promise<Result<ListedPerson>> {
  if (disabled && id === actor.personId) return failField(['disabled'], 'cannot_disable_self')
  const person = await findPerson(tx.db, id)
  if (person === undefined) return fail('person_not_found')
  // Disabling again keeps the first time.
  await setDisabled(tx, id, disabled ? (person.disabled_at ?? tx.clock.now()) : null)
  if (disabled) await deleteSessionsOf(tx, id, 'all')
  await writeAudit(tx, {
    actor: actor.keyId,
    action: disabled ? 'person.disable' : 'person.enable',
    subject: id,
    reason,
    detail: { name: person.email },
  })
  const [changed] = await listPeoplePage(tx.db, { id, limit: 1 })
  return changed === undefined ? fail('person_not_found') : ok(changed)
}
