### refuse
echo 422 >answer

### repair
echo 200 >answer
