/** Base images of virtual machines. Hosts download each once and verify its checksum. */
import type { Reply } from '../../../src/client/client.ts'
import { ConfirmCall } from '../../form/dialog.tsx'
import { FieldDialog } from '../../form/field-dialog.tsx'
import { actionColumn, dateColumn, textColumn, type Columns } from '../../list/column.tsx'
import { ListTable } from '../../list/table.tsx'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'
import { useDialog } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'

type Image = Reply<'listBaseImages'>['images'][number]

export function FleetImages() {
  const dialog = useDialog()
  const add = (
    <Button look="primary" onClick={() => dialog.open((close) => <ImageForm onClose={close} />)}>
      Add image
    </Button>
  )
  const remove = (image: Image): void => dialog.open((close) => <DeleteImage image={image} onClose={close} />)
  return (
    <Card title="Base images" actions={add}>
      <ListTable
        label="Base images"
        call="listBaseImages"
        rows={({ images }) => images}
        rowKey="name"
        columns={[...columns, actionColumn('Delete', ({ name }) => name, remove, { look: 'quiet' })]}
        empty={
          <Empty title="No base images yet">
            Virtual machines boot a small image that each host builds. Add a cloud image, such as Debian or Ubuntu, to
            use that instead.
          </Empty>
        }
      />
      {dialog.shown}
    </Card>
  )
}

const columns: Columns<Image> = [
  textColumn('Name', ({ name, isDefault }) => (
    <span className="flex flex-wrap items-center gap-2">
      <span className="font-medium">{name}</span>
      {isDefault && <Badge tone="info">default</Badge>}
    </span>
  )),
  textColumn('Architecture', 'arch'),
  textColumn('Login user', 'loginUser'),
  textColumn('Source', ({ source, sha256 }) => <span title={`sha256 ${sha256}`}>{source}</span>, {
    className: 'break-all',
  }),
  dateColumn('Added', 'createdAt', { wideOnly: true }),
]

function DeleteImage({ image, onClose }: { image: Image; onClose: () => void }) {
  return (
    <ConfirmCall
      title={`Delete ${image.name}?`}
      action="Delete"
      operation="deleteBaseImage"
      input={{ params: { id: image.name } }}
      refreshes={['listBaseImages']}
      done={`Deleted ${image.name}.`}
      onClose={onClose}
    >
      Current machines keep running. New machines can no longer use it.
    </ConfirmCall>
  )
}

function ImageForm({ onClose }: { onClose: () => void }) {
  return (
    <FieldDialog
      operation="addBaseImage"
      refreshes={['listBaseImages']}
      title="Add a base image"
      action="Add image"
      fields={[
        'name',
        'source',
        ['sha256', { read: (text) => text.trim().toLowerCase() }],
        'loginUser',
        'arch',
        'isDefault',
      ]}
      done={({ name }) => `Added ${name}.`}
      onClose={onClose}
    />
  )
}
