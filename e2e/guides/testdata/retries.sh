### refuse
echo 404 >answer
