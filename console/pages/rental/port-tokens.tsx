/** Tokens of an HTTP port, for programs. A token is shown once, when it is created. */
import { useState } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { limits } from '../../../src/base/limits.ts'
import { localDate } from '../../../src/view/time.ts'
import { missingScope, useMay } from '../../api/me.ts'
import { CallButton, FormFrame } from '../../form/dialog.tsx'
import { useCallForm } from '../../form/use-form.ts'
import { actionsColumn, dateColumn, textColumn, type Columns } from '../../list/column.tsx'
import { ListTable } from '../../list/table.tsx'
import { CopyLine } from '../../ui/copy.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { TextField } from '../../ui/field.tsx'

type Token = Reply<'listPortTokens'>['tokens'][number]

interface PortTokensProps {
  readonly id: string
  readonly port: number
  readonly onClose: () => void
}

export function PortTokensDialog({ id, port, onClose }: PortTokensProps) {
  const [created, setCreated] = useState<Reply<'createPortToken'>>()
  const mayWrite = useMay('compute:write')
  const input = { params: { id, port } }
  const columns: Columns<Token> = [
    textColumn('Name', 'name'),
    textColumn('Token', ({ last4 }) => <code>bpt_…{last4}</code>),
    dateColumn('Created', 'createdAt', { wideOnly: true }),
    textColumn('Expires', ({ expiresAt }) => (expiresAt === null ? 'Never' : localDate(expiresAt))),
    actionsColumn((token) => (
      <CallButton
        operation="revokePortToken"
        input={{ params: { id, port, tokenId: token.id } }}
        refreshes={['listPortTokens']}
        done="Token revoked"
        disabledReason={mayWrite ? undefined : missingScope('compute:write')}
      >
        Revoke
      </CallButton>
    )),
  ]
  const form = useCallForm('createPortToken', {
    input,
    refreshes: ['listPortTokens'],
    initial: () => ({ name: '' }),
    body: ({ name }) => ({ name }),
    onDone: setCreated,
  })
  return (
    <Dialog title={`Tokens of port ${port}`} onClose={onClose} needsButton={created !== undefined} wide>
      <div className="flex flex-col gap-4">
        <p className="text-sm text-muted">
          A program sends a token as <code>Authorization: Bearer …</code>. It gives access to this port only, and the
          application never sees it.
        </p>
        <ListTable
          label={`Tokens of port ${port}`}
          call="listPortTokens"
          input={input}
          rows={({ tokens }) => tokens}
          rowKey="id"
          columns={columns}
          empty={<p className="text-sm text-muted">No tokens yet.</p>}
        />
        {created !== undefined && (
          <div className="flex flex-col gap-2 rounded-md border border-warn bg-warn-soft px-4 py-3 text-sm">
            <p>
              <strong>This token is shown only once.</strong> Copy it to a safe place now.
            </p>
            <CopyLine label={`Token ${created.name}`} text={created.token} />
          </div>
        )}
        <FormFrame
          form={form}
          action="Create token"
          cancel="Close"
          disabledReason={mayWrite ? undefined : missingScope('compute:write')}
          onClose={onClose}
        >
          <TextField label="Name" maxLength={limits.nameChars} hint="For example “ci”." {...form.text('name')} />
        </FormFrame>
      </div>
    </Dialog>
  )
}
