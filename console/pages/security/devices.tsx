/** Devices on which the person has logged the command line in. */
import type { Reply } from '../../../src/client/client.ts'
import { ConfirmCall } from '../../form/dialog.tsx'
import { actionColumn, agoColumn, dateColumn, textColumn, type Columns } from '../../list/column.tsx'
import { ListTable } from '../../list/table.tsx'
import { ButtonLink } from '../../ui/button.tsx'
import { Section } from '../../ui/card.tsx'
import { useDialog } from '../../ui/dialog.tsx'

type Device = Reply<'listDeviceKeys'>['devices'][number]

export function Devices() {
  const dialog = useDialog()
  return (
    <Section title="Command line" actions={<ButtonLink to="/device">Log a device in</ButtonLink>}>
      <ListTable
        label="Devices"
        call="listDeviceKeys"
        rows={({ devices }) => devices}
        rowKey="id"
        columns={[
          ...columns,
          actionColumn<Device>(
            'Log out',
            ({ name }) => name,
            (device) => dialog.open((close) => <EndDialog device={device} onClose={close} />),
          ),
        ]}
        skeleton={1}
        empty="No device is logged in. Run berth login on one."
      />
      {dialog.shown}
    </Section>
  )
}

const columns: Columns<Device> = [
  textColumn('Device', ({ name }) => <span className="block min-w-40 font-medium break-words">{name}</span>),
  textColumn('Account', 'accountName'),
  textColumn('Scopes', ({ scopes }) => scopes.join(', '), { wideOnly: true }),
  agoColumn('Last used', 'lastUsedAt', { never: 'Never' }),
  dateColumn('Ends', 'expiresAt', { wideOnly: true }),
]

function EndDialog({ device: { id, name }, onClose }: { device: Device; onClose: () => void }) {
  return (
    <ConfirmCall
      title={`Log ${name} out?`}
      action="Log out"
      operation="endDeviceKey"
      input={{ params: { id } }}
      refreshes={['listDeviceKeys', 'listApiKeys']}
      done={`Logged ${name} out`}
      onClose={onClose}
    >
      <p>Its API key stops working within a second. Machines keep running.</p>
    </ConfirmCall>
  )
}
