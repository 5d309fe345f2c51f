-- A site that knows one account: what Slurm's accounting database would refuse is refused here with the same error.
local ESLURM_INVALID_ACCOUNT = 2045

function slurm_job_submit(job_desc, part_list, submit_uid)
  if job_desc.account ~= nil and job_desc.account ~= "physics" then
    return ESLURM_INVALID_ACCOUNT
  end
  return slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
  return slurm.SUCCESS
end

return slurm.SUCCESS
