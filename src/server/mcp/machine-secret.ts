/** The secrets that a machine was given, so that its output is shown without them. */
import type { App } from '../../app/app.ts'
import { secretNamesOf } from '../../domain/workload.ts'
import { findSecrets } from '../../store/account/secret.ts'
import type { Rental } from '../../store/rental/rental.ts'

export async function readSecretValues({ database, vault }: App, rental: Rental): Promise<readonly string[]> {
  const { workload } = rental.spec
  const names = workload === undefined ? [] : secretNamesOf(workload)
  const secrets = await findSecrets(database.db, rental.account_id, names)
  return secrets.map(({ sealed }) => vault.open(sealed))
}
