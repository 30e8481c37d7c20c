/** Shows the result of the check of an account at a cloud. */
import type { Reply } from '../../../src/client/client.ts'
import { checkLabels } from '../../../src/view/provider.ts'
import { badgeColumn, textColumn, type Columns } from '../../list/column.tsx'
import { Table } from '../../ui/table.tsx'

type Check = Reply<'checkProvider'>['checks'][number]

const checkNames = {
  reachable: 'Reachable',
  rights: 'Rights',
  limits: 'Limits',
  prices: 'Prices',
} as const satisfies Record<Check['check'], string>

const columns: Columns<Check> = [
  textColumn('Check', ({ check }) => checkNames[check]),
  badgeColumn('Result', ({ result }) => checkLabels[result]),
  textColumn('Detail', 'detail'),
]

export function Checks({ checks }: { checks: readonly Check[] }) {
  return <Table label="Checks" columns={columns} rows={checks} rowKey="check" empty={null} />
}
