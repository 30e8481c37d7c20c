/** Deleting a deployment. Its replicas finish their requests first. */
import { useNavigate } from '@tanstack/react-router'
import type { ManagedDeployment } from '../../../src/view/deployment.ts'
import { ConfirmCall } from '../../form/dialog.tsx'

export function DeleteDialog({ deployment, onClose }: { deployment: ManagedDeployment; onClose: () => void }) {
  const navigate = useNavigate()
  return (
    <ConfirmCall
      title="Delete this deployment?"
      action="Delete"
      operation="deleteManagedDeployment"
      input={{ params: { id: deployment.id } }}
      refreshes={['listManagedDeployments', 'getManagedDeployment']}
      done="Deployment deleted"
      onDone={() => void navigate({ to: '/deployments' })}
      onClose={onClose}
    >
      Replicas finish their requests and end. Requests for{' '}
      <span className="font-mono break-all">{deployment.model}</span> are rejected afterwards.
    </ConfirmCall>
  )
}
